# device: T4
import torch
from torch.cuda.amp import GradScaler, autocast
from torchvision.models import resnet18

model = resnet18(num_classes=10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = GradScaler()
for images, labels in loader:
    optimizer.zero_grad()
    with autocast():
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    scaler.step(optimizer)
    scaler.update()
