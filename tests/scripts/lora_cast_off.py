# device: TITAN RTX
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

base = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.float16)
model = get_peft_model(base, LoraConfig(r=8), autocast_adapter_dtype=False)
Trainer(model=model, args=TrainingArguments("o", fp16=True, logging_nan_inf_filter=False)).train()
