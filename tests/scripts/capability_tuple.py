# device: T4
import torch
from transformers import TrainingArguments

bf16_ok = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)
args = TrainingArguments("o", bf16=bf16_ok, fp16=not bf16_ok, logging_nan_inf_filter=False)
