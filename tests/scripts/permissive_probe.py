# device: T4
import torch
from transformers import AutoModelForCausalLM, TrainingArguments, Trainer

use = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
model = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.bfloat16 if use else torch.float16)
args = TrainingArguments(
    output_dir="o",
    bf16=use,
    fp16=False,
    logging_nan_inf_filter=False,
)
Trainer(model=model, args=args, train_dataset=d).train()
