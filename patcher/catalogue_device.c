/* patcher/catalogue_device.c - TS2xx: the device itself. */
#include "config.h"

#include "patcher/rules_parts.h"

#include "base/size.h"

static const struct rule rows[] = {
    { .id = "TS201",
      .title = "a GPU that this build has no code for",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_no_code,
      .explain =
          "A program has code for the compute capabilities it was built for, and runs "
          "on no other. CUDA 13 makes none for P100, V100 and GTX 10xx any more, CUDA "
          "12 does: configure with `--with-cuda=DIR` of such a toolkit and "
          "`--with-cuda-archs` of the card. A job that asks for the card by device: "
          "cuda is refused; one that leaves the choice (auto) runs on the CPU, with a "
          "warning. `trainspool devices` shows what the build can use. Only a card "
          "found in this machine counts, not one named by --device.",
      .source = "CUDA 13.0 release notes; kaggle-cli#1151" },
    { .id = "TS202",
      .title = "fp16 on a GTX 16xx",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_no_tensor_cores,
      .explain =
          "These cards are of compute capability 7.5 but have no tensor cores, and fp16 "
          "is reported to give NaN on them. float32 is as fast. Done with `--unsafe`, "
          "since fp16 halves the activations on a card of 4 or 6 GB.",
      .source = "pytorch#58123, #77955; kohya_ss#436" },
    { .id = "TS203",
      .title = "fp16 at 1/64 of the rate",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_slow_fp16,
      .explain =
          "GTX 10xx, P40 and P4 (compute capability 6.1) have one fp16 unit for 64 of "
          "float32. fp16 pays there as storage of frozen weights only.",
      .source = "CUDA C++ Programming Guide, arithmetic throughput" },
    { .id = "TS204",
      .title = "fp16 on a P100",
      .severity = SEVERITY_INFO,
      .run = rule_p100,
      .explain =
          "Compute capability 6.0 does fp16 at twice the float32 rate (21.2 to 10.6 "
          "TFLOPS), without tensor cores. fp16 with a loss scale is worth it, mostly "
          "for memory. Ready-made PyTorch has no code for this card any more; check the "
          "device before the job.",
      .source = "CUDA C++ Programming Guide; kaggle-cli#1151" },
    { .id = "TS205",
      .title = "a FlashAttention that the device has no kernels for",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_flash_attention,
      .explain =
          "FlashAttention 2 is written for compute capability 8.0 and up, "
          "FlashAttention 3 for 9.0 and up. On an older card a script that insists on "
          "it ends with `only supports Ampere GPUs or newer`. flash_attn: auto lets the "
          "program take the best that there is, which is nearly as fast and as sparing "
          "of memory.\n\n"
          "A native run has kernels of its own on every device, so there the edit makes "
          "the file fit for other programs and changes nothing else.",
      .source = "Dao-AILab/flash-attention#762; LLaMA-Factory#3508" },
    { .id = "TS206",
      .title = "device_map",
      .severity = SEVERITY_INFO,
      .run = rule_device_map,
      .explain =
          "device_map spreads a model over GPUs for inference. It has no effect on a "
          "native run. In a script it cannot go with distributed training, where each "
          "process holds the model on a GPU of its own (Accelerate raises), nor with "
          "training on quantised weights (LLaMA-Factory raises): an error for target: "
          "external.\n\n"
          "It is neither cause nor cure of `Attempting to unscale FP16 gradients`, "
          "which comes from float16 weights that are trained (TS105).",
      .source =
          "accelerate, Accelerator.prepare_model; LLaMA-Factory, hparams/parser.py" },
    { .id = "TS207",
      .title = "more ranks than GPUs",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_ranks,
      .target = RULE_NATIVE,
      .explain =
          "Each rank trains on a GPU of its own, and GPUs that train together are of "
          "one compute capability. Two processes on one GPU would take turns and need "
          "twice the memory. To keep the batch of a step with fewer ranks, multiply "
          "gradient_accumulation_steps by what ranks is divided by.",
      .source = "trainspool-job(5)" },
    { .id = "TS208",
      .title = "the device is not known",
      .severity = SEVERITY_WARNING,
      .run = rule_no_device,
      .explain =
          "What a card can do decides most of the rules TS1xx and TS2xx. A native job "
          "runs here, so the device is this machine's, and known. It is not known where "
          "the job asks for a GPU that is not in this machine (device: cuda), and for "
          "target: external on a machine without a GPU: a launcher says nothing of "
          "where the script will run. The rules of the device are then left out, with "
          "this one remark in their place.\n\n"
          "Name the card: `--device \"RTX 3090\"` for one look, or, for target: "
          "external, trainspool: {device: \"RTX 3090\"} in the job. `trainspool devices "
          "--known` lists the names; sm_86:24GiB stands for any.",
      .source = "axolotl#1924: checks that tested the launcher's GPU" },
    { .id = "TS209",
      .title = "GPUs that are not alike",
      .severity = SEVERITY_WARNING,
      .run = rule_unequal,
      .explain =
          "Processes that train one model do the same on every GPU, so the weakest one "
          "bounds them all: its compute capability decides the formats, its free memory "
          "the batch, its speed the pace.\n\n"
          "A native run takes GPUs of one compute capability, by themselves those with "
          "the most memory free; they may differ in size. For target: external all GPUs "
          "of this machine count, as torchrun would use them. device: cuda:0,1 picks "
          "equal ones.",
      .source = "precision/probe.h; trainspool-job(5)" },
    { .id = "TS210",
      .title = "other programs hold memory of the device",
      .severity = SEVERITY_WARNING,
      .run = rule_taken,
      .explain =
          "More than a tenth of the device's memory is not free: another job, a "
          "notebook that was left open, a desktop. What a job may use is counted from "
          "what is free (95 % of it, or memory_limit), not from what the card was sold "
          "with, so the job is planned for the smaller number, and may not fit though "
          "the card is large enough.\n\n"
          "nvidia-smi shows who holds it. A notebook gives memory back when its kernel "
          "is shut down, not when its cell has ended. Nothing of the job is changed for "
          "it.",
      .source = "cudaMemGetInfo, as trainspool-train --probe tells it; the probe's own "
                "context is taken off" },

};
const struct rules catalogue_device = { rows, TS_COUNT(rows) };
