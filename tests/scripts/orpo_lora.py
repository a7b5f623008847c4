# device: L4
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import ORPOConfig, ORPOTrainer

model = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.bfloat16)
args = ORPOConfig(output_dir="o", beta=0.1, bf16=True, learning_rate=8e-6, logging_nan_inf_filter=False)
ORPOTrainer(model=model, args=args, train_dataset=d, peft_config=LoraConfig(r=16)).train()
