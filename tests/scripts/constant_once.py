# device: T4
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

WEIGHTS = torch.float16  # storage
PRECISE = False
model = AutoModelForCausalLM.from_pretrained("small", torch_dtype=WEIGHTS)
args = TrainingArguments("o", fp16=True, tf32=PRECISE, logging_nan_inf_filter=False)
Trainer(model=model, args=args).train()
