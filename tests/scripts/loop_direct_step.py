# device: T4
import torch

scaler = torch.cuda.amp.GradScaler()
opt = torch.optim.Adam(net.parameters())
for x in loader:
    with torch.cuda.amp.autocast():
        loss = net(x).mean()
    scaler.scale(loss).backward()
    opt.step()
    scaler.update()
