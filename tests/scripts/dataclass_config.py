# device: TITAN RTX
from dataclasses import dataclass

import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


@dataclass
class Settings:
    name: str = "gpt2-medium"
    half: bool = True
    out: str = "runs/a"


cfg = Settings(out="runs/b")
model = AutoModelForCausalLM.from_pretrained(
    cfg.name, torch_dtype=torch.float16 if cfg.half else torch.float32
)
Trainer(
    model,
    TrainingArguments(cfg.out, fp16=cfg.half, logging_nan_inf_filter=False),
    train_dataset=rows,
).train()
