# device: T4
import torch
from peft import LoraConfig, TaskType, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

device = "cuda" if torch.cuda.is_available() else "cpu"


class BaseLLM:
    def __init__(self, checkpoint="HuggingFaceTB/SmolLM2-360M-Instruct"):
        self.tokenizer = AutoTokenizer.from_pretrained(checkpoint)
        load_kwargs = {"torch_dtype": torch.float16 if device == "cuda" else torch.float32}
        self.model = AutoModelForCausalLM.from_pretrained(checkpoint, **load_kwargs).to(device)


def train_model(out):
    llm = BaseLLM()
    llm.model = get_peft_model(
        llm.model,
        LoraConfig(task_type=TaskType.CAUSAL_LM, target_modules="all-linear", r=8, lora_alpha=32),
    )
    args = TrainingArguments(
        output_dir=str(out),
        gradient_checkpointing=True,
        learning_rate=2e-4,
        num_train_epochs=3,
        per_device_train_batch_size=32,
        fp16=torch.cuda.is_available(),
        max_grad_norm=1.0,
        label_names=["labels"],
    )
    Trainer(model=llm.model, args=args, train_dataset=None).train()
