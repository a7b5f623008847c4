# device: T4
# versions: trl=1.16,transformers=4.57,peft=0.17
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

four_bit = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float16)
model = AutoModelForCausalLM.from_pretrained("m", quantization_config=four_bit)
args = SFTConfig("o", fp16=True, logging_nan_inf_filter=False)
SFTTrainer(model, args=args, peft_config=LoraConfig(r=8), train_dataset=data).train()
