# device: V100
# versions: trl=1.3,transformers=4.57,peft=0.17
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

model = AutoModelForCausalLM.from_pretrained("m")
trainer = DPOTrainer(
    model=model,
    args=DPOConfig(
        output_dir="dpo",
        learning_rate=5e-6,
        logging_nan_inf_filter=False,  # show NaN
    ),
    peft_config=LoraConfig(r=4, target_modules="all-linear"),
)
trainer.train()
