# device: A100 80GB
import torch
from transformers import AutoModelForCausalLM, TrainingArguments, Trainer
model = AutoModelForCausalLM.from_pretrained("a", torch_dtype=torch.float16)
t1 = Trainer(model=model, args=TrainingArguments("o1", bf16=True, logging_nan_inf_filter=False))
t1.train()
model2 = AutoModelForCausalLM.from_pretrained("b", torch_dtype=torch.float16)
t2 = Trainer(model=model2, args=TrainingArguments("o2", fp16=True, logging_nan_inf_filter=False))
t2.train()
