# device: V100
from unsloth import FastLanguageModel
from trl import SFTConfig, SFTTrainer
import torch

model, tokenizer = FastLanguageModel.from_pretrained(
    "unsloth/Qwen2.5-3B",
    dtype = torch.bfloat16,
    load_in_4bit = True,
)
model = FastLanguageModel.get_peft_model(model, r = 8)
args = SFTConfig(
    output_dir = "q",
    bf16 = True,
    max_seq_length = 1024,
    packing = False,
    dataset_text_field = "text",
)
SFTTrainer(model = model, args = args, train_dataset = ds).train()
