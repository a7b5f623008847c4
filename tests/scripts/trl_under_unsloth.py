# device: T4
# versions: trl=0.24,transformers=4.57
from unsloth import FastLanguageModel
from trl import SFTConfig, SFTTrainer

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/m", load_in_4bit=True)
model = FastLanguageModel.get_peft_model(model, r=16)
args = SFTConfig("o", logging_nan_inf_filter=False)
SFTTrainer(model=model, args=args, train_dataset=data).train()
