# device: T4
import torch
from torch.nn.utils import clip_grad_norm_

def run(model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda")
    for step, batch in enumerate(loader):
        with torch.amp.autocast("cuda"):
            loss = model(batch)
        scaler.scale(loss).backward()
        if (step + 1) % 4 == 0:
            # keep the norm small
            clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
