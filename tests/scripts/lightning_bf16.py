# device: V100
import pytorch_lightning as pl

trainer = pl.Trainer(precision="bf16-mixed", accumulate_grad_batches=2, devices=1)
trainer.fit(model, data)
