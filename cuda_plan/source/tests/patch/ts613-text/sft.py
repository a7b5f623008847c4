trainer = SFTTrainer(model, tokenizer = tok)
