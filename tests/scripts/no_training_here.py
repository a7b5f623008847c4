# device: H100
"""Only text that looks like it: nothing may be found in strings."""
from transformers import TrainingArguments

HELP = """
TrainingArguments(fp16=True, bf16=True)
model.half()
"""
args = TrainingArguments("o", bf16=True, logging_nan_inf_filter=False)  # fp16=True
