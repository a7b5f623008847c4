# device: T4
# versions: trl=1.16,transformers=4.57
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("m", dtype="float32")
args = SFTConfig("o", fp16=True, max_length=None, logging_nan_inf_filter=False)
SFTTrainer(model, args=args, train_dataset=data).train()
