# device: A100 80GB
import os
from transformers import TrainingArguments

world = int(os.environ.get("WORLD_SIZE", 1))
args = TrainingArguments(
    output_dir="o",
    per_device_train_batch_size=64 // 8,
    gradient_accumulation_steps=max(1, 32 // world),
    learning_rate=2 * 1e-5,
    bf16=True,
    logging_nan_inf_filter=False,
)
