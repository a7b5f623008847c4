# device: T4
from transformers import TrainingArguments

args = TrainingArguments(output_dir="o", Fp16=True, learing_rate=1e-5, logging_nan_inf_filter=False)
