trainer = Trainer(model=model, processing_class=tokenizer, data_collator=make(tokenizer=tokenizer))
same = tokenizer == trainer
