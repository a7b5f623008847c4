# device: T4
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


def load(name, dtype=torch.float32):
    return AutoModelForCausalLM.from_pretrained(name, torch_dtype=dtype)


teacher = load("big", torch.float16)
student = load("small", torch.float32)
Trainer(model=student, args=TrainingArguments("o", fp16=True, logging_nan_inf_filter=False)).train()
