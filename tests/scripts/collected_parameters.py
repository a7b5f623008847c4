# device: T4
import torch
from transformers import AutoModel

model = AutoModel.from_pretrained("m")
router = make_router().to(torch.float16)
params = list(model.parameters())
params += list(router.parameters())
optimizer = torch.optim.AdamW(params, lr=1e-5)
scaler = torch.amp.GradScaler()


def step(batch):
    with torch.autocast("cuda"):
        loss = model(batch) * router(batch)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(params, 1.0)
    scaler.step(optimizer)
    scaler.update()
