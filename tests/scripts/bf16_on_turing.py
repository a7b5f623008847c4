# device: T4
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=2)
args = TrainingArguments(
    "out",
    evaluation_strategy="epoch",
    per_device_train_batch_size=16,   # fits
    bf16=True,                        # from another card
    learning_rate=2e-5
)
trainer = Trainer(model, args, train_dataset=train, eval_dataset=test)
trainer.train()
