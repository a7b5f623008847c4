# device: A100 80GB
from transformers import TrainingArguments, Trainer, AutoModelForCausalLM

args = TrainingArguments(output_dir="o", fp16=True, bf16=True, tf32=True)
Trainer(model=AutoModelForCausalLM.from_pretrained("m"), args=args).train()
