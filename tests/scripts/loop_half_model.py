# device: T4
import torch
from torchvision.models import resnet18

model = resnet18(num_classes=10).cuda().half()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scaler = torch.cuda.amp.GradScaler()
for images, labels in loader:
    optimizer.zero_grad()
    with torch.cuda.amp.autocast():
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
