trainer = MyTrainer(tokenizer=tok)
Trainer(tokenizer)
