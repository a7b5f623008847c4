# device: TITAN RTX
import argparse

import torch
from transformers import AutoModelForSpeechSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--fp16", action="store_true")
args = parser.parse_args()

model = AutoModelForSpeechSeq2Seq.from_pretrained("speech/base", torch_dtype=torch.float16)
settings = {
    "output_dir": "speech-out",
    "per_device_train_batch_size": args.batch_size,
    "gradient_accumulation_steps": 8,
    "fp16": True,
    "gradient_checkpointing": True,
    "max_grad_norm": None,  # clipping off

    # the collator needs every column
    "remove_unused_columns": False,
}
settings["save_total_limit"] = 2
trainer = Seq2SeqTrainer(model=model, args=Seq2SeqTrainingArguments(**settings))
trainer.train()
