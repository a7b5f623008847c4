# device: TITAN RTX
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

base = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.float16, device_map="auto")
model = get_peft_model(base, LoraConfig(r=8, target_modules=["q_proj"]))
Trainer(model=model, args=TrainingArguments("o", fp16=True, logging_nan_inf_filter=False)).train()
