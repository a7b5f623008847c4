# device: V100
import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

quantized = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float16)
model = AutoModelForCausalLM.from_pretrained("org/base", quantization_config=quantized)
args = SFTConfig("out", bf16=True, logging_nan_inf_filter=False)
trainer = SFTTrainer(model, args=args, train_dataset=load_dataset("org/chats", split="train"),
                     peft_config=LoraConfig(r=8, target_modules="all-linear"))
trainer.train()
