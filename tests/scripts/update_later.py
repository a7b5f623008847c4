# device: T4
from transformers import TrainingArguments

options = dict(output_dir="o", learning_rate=1e-5, logging_nan_inf_filter=False)
options["bf16"] = True
args = TrainingArguments(**options)
