# device: A100 80GB
from transformers import TrainingArguments

args = TrainingArguments(output_dir="o", bf16=True, max_grad_norm=-1.0, learning_rate=5e-5,
                         logging_nan_inf_filter=False)
