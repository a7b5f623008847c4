# device: T4
import torch
from transformers import AutoModelForCausalLM, TrainingArguments, Trainer

model = AutoModelForCausalLM.from_pretrained("m")
Trainer(model=model, args=TrainingArguments("o", fp16=True, logging_nan_inf_filter=False)).train()
with torch.no_grad(), torch.autocast("cuda", dtype=torch.float16):
    print(model.generate(ids))
