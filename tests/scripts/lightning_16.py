# device: T4
import lightning as L
import torch


class Net(L.LightningModule):
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


trainer = L.Trainer(max_epochs=3, precision="16-mixed", gradient_clip_val=1.0)
trainer.fit(Net(), loader)
