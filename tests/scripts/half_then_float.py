# device: T4
import torch
from transformers import AutoModel, Trainer, TrainingArguments

model = AutoModel.from_pretrained("bert", torch_dtype=torch.float16)
model = model.float()  # master weights
Trainer(model=model, args=TrainingArguments("o", fp16=True, logging_nan_inf_filter=False)).train()
