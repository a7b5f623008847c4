# device: TITAN RTX
"""Fine-tune a small causal model on a text column."""
import torch
from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)

CHECKPOINT = "distilgpt2"


def main():
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)
    tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(
        CHECKPOINT,
        torch_dtype=torch.float16,
        device_map="auto",  # one card
    )
    data = load_dataset("json", data_files="notes.jsonl")["train"]
    options = TrainingArguments(
        output_dir="notes-model",
        num_train_epochs=3,
        per_device_train_batch_size=4,
        fp16=torch.cuda.is_available(),
        learning_rate=5e-5,
        logging_steps=10,
    )
    trainer = Trainer(
        model=model,
        args=options,
        train_dataset=data,
        tokenizer=tokenizer,
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
    )
    trainer.train()


if __name__ == "__main__":
    main()
