# device: T4
import torch
from transformers import AutoModelForCausalLM
from trl import GKDConfig, GKDTrainer

DTYPE = torch.float16
teacher = AutoModelForCausalLM.from_pretrained("big", torch_dtype=DTYPE)
student = AutoModelForCausalLM.from_pretrained("small", torch_dtype=DTYPE)
args = GKDConfig(output_dir="o", fp16=True, lmbda=0.5, logging_nan_inf_filter=False)
GKDTrainer(model=student, teacher_model=teacher, args=args).train()
