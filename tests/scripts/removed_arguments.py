# device: T4
from transformers import TrainingArguments

args = TrainingArguments(
    output_dir="o",
    fp16=True,
    fp16_opt_level="O1",
    no_cuda=False,
    overwrite_output_dir=True,
    logging_nan_inf_filter=False,
)
