# device: T4
import torch
from transformers import AutoModel, Trainer, TrainingArguments

model = AutoModel.from_pretrained("bert")
model = model.to(device="cuda", dtype=torch.float16)
Trainer(model=model, args=TrainingArguments("o", fp16=True, logging_nan_inf_filter=False)).train()
