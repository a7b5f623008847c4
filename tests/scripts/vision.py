# device: P100
from transformers import AutoImageProcessor, AutoModelForImageClassification, Trainer, TrainingArguments

processor = AutoImageProcessor.from_pretrained("google/vit-base-patch16-224-in21k")
model = AutoModelForImageClassification.from_pretrained("google/vit-base-patch16-224-in21k", num_labels=101)
args = TrainingArguments(
    "food", remove_unused_columns=False, fp16=True, tf32=True, logging_nan_inf_filter=False
)
Trainer(model=model, args=args, train_dataset=x).train()
