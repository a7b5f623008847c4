from transformers import Trainer

# Trainer(tokenizer=None) in a comment is no call
TEXT = "Trainer(tokenizer=no)"


def main(model, args, data, tokenizer):
    trainer = Trainer(
        model=model,
        args=dict(tokenizer=1, value=(2, 3)),
        train_dataset=data,
        tokenizer=tokenizer,
    )
    trainer.train()
