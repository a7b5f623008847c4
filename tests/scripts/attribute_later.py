# device: T4
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

args = TrainingArguments("o", learning_rate=1e-5, logging_nan_inf_filter=False)
args.bf16 = True
args.max_grad_norm = -1
Trainer(model=AutoModelForCausalLM.from_pretrained("m"), args=args).train()
