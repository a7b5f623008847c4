# device: T4
from transformers import TrainingArguments

common = {"logging_nan_inf_filter": False, "bf16": False}
args = TrainingArguments(**{**common, "output_dir": "o", "bf16": True})
