# device: T4
# versions: trl=0.24,transformers=4.57
from transformers import TrainingArguments
from trl import SFTTrainer

args = TrainingArguments("o", logging_nan_inf_filter=False)
SFTTrainer("m", args=args, train_dataset=data).train()
