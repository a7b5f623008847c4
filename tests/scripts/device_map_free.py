# device: TITAN RTX
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.float16)  # device_map removed
Trainer(
    model=model,
    args=TrainingArguments("o", fp16=True, gradient_checkpointing=True, logging_nan_inf_filter=False),
).train()
