# device: T4
from transformers import (AutoModelForSeq2SeqLM, AutoTokenizer, DataCollatorForSeq2Seq,
                          Seq2SeqTrainer, Seq2SeqTrainingArguments)

checkpoint = "google/flan-t5-base"
model = AutoModelForSeq2SeqLM.from_pretrained(checkpoint)
args = Seq2SeqTrainingArguments(
    output_dir="summaries",
    per_gpu_train_batch_size=8,
    fp16=True,
    predict_with_generate=True,
    evaluation_strategy="epoch",
    logging_nan_inf_filter=False,
)
Seq2SeqTrainer(model=model, args=args, train_dataset=a, eval_dataset=b).train()
