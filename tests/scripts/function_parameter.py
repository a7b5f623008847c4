# device: T4
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


def load(name, dtype):
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=dtype)
    model.config.use_cache = False
    return model


def fit(model, out, half=False):
    args = TrainingArguments(out, fp16=half, logging_nan_inf_filter=False)
    trainer = Trainer(model=model, args=args, train_dataset=data)
    trainer.train()


fit(load("gpt2", torch.float16), "runs/1", half=True)
