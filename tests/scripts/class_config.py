# device: T4
"""Kaggle style: settings are fields of a class."""
import torch
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments


class CFG:
    model_name = "microsoft/deberta-v3-base"
    lr = 1e-5
    epochs = 4
    bf16 = True
    dtype = torch.bfloat16
    batch = 8


model = AutoModelForSequenceClassification.from_pretrained(CFG.model_name, torch_dtype=CFG.dtype)
args = TrainingArguments(
    output_dir="fold0",
    learning_rate=CFG.lr,
    num_train_epochs=CFG.epochs,
    per_device_train_batch_size=CFG.batch,
    bf16=CFG.bf16,
    report_to="none",
    logging_nan_inf_filter=False,
)
trainer = Trainer(model=model, args=args, train_dataset=train, processing_class=tok)
trainer.train()
