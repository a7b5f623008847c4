# device: A100 80GB
from transformers import TrainingArguments

args = TrainingArguments(
    "o", bf16=True, per_device_train_batch_size=4,
    deepspeed={"fp16": {"enabled": True}, "zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 8},
    logging_nan_inf_filter=False,
)
