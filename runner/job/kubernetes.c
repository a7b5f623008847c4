/*
 * runner/job/kubernetes.c - writes the manifest of a job.
 *
 * Each pod is a machine, on which trainspool run starts the ranks.  A pod that is lost ends
 * the ranks of all others with a status other than 0, so that Kubernetes, which replaces
 * failed pods one by one, replaces all of them; they meet again and resume.  Sources: "Jobs"
 * and "Handling retriable and non-retriable pod failures", Kubernetes 1.33 (successPolicy).
 */
#include "config.h"

#include "runner/job/kubernetes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/digest.h"
#include "base/path.h"
#include "base/yaml_quote.h"
#include "runner/output/report.h"

/* A Service's name begins with a letter; the name of a pod's host, NAME-INDEX, has at most
 * 63 characters. */
enum { STEM_MAX = 44, DIGEST_DIGITS = 5 };

/* ---- Names ---- */

static bool is_letter(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Letters and digits of the name; runs of others become one minus. */
static size_t make_stem(const char *name, char out[STEM_MAX + 1])
{
    const char *end = strrchr(name, '.');
    size_t len = 0;

    if (!end || (strcmp(end, ".yaml") != 0 && strcmp(end, ".yml") != 0))
        end = name + strlen(name);
    for (; name < end && len < STEM_MAX; name++) {
        const char c = lower(*name);

        if (is_letter(c) || (is_digit(c) && len > 0))
            out[len++] = c;
        else if (len > 0 && out[len - 1] != '-')
            out[len++] = '-';
    }
    while (len > 0 && out[len - 1] == '-')
        len--;
    out[len] = '\0';
    return len;
}

void kubernetes_name(const char *path, char out[KUBERNETES_NAME])
{
    char stem[STEM_MAX + 1], digest[DIGEST_TEXT];

    digest_bytes(path, strlen(path), digest);
    snprintf(out, KUBERNETES_NAME, "%s-%.*s",
             make_stem(path_base(path), stem) > 0 ? stem : "job", DIGEST_DIGITS, digest);
}

bool kubernetes_is_name(const char *text)
{
    const size_t len = strlen(text);

    for (size_t i = 0; i < len; i++) {
        const bool inner = i > 0 && i + 1 < len && text[i - 1] != '.';

        if (!is_letter(text[i]) && !is_digit(text[i]) && !(inner && text[i] == '-') &&
            !(inner && text[i] == '.' && text[i - 1] != '-' && text[i + 1] != '-'))
            return false;
    }
    return len > 0 && len <= 253;
}

/* ---- Values ---- */

/* Kubernetes expands $(NAME) in the words of a command, and $$ is one $. */
static void add_word(struct text *out, const char *word)
{
    struct text escaped;

    text_init(&escaped, 0);
    for (; *word; word++)
        text_adds(&escaped, *word == '$' ? "$$" : (char[]) { *word, 0 });
    text_adds(out, "            - ");
    yaml_quote(out, escaped.data);
    text_addc(out, '\n');
    text_clear(&escaped);
}

static void add_value(struct text *out, const char *before, const char *value)
{
    text_adds(out, before);
    yaml_quote(out, value);
    text_addc(out, '\n');
}

static void add_labels(struct text *out, const char *indent, const char *name)
{
    text_addf(out,
              "%slabels:\n"
              "%s  app.kubernetes.io/name: trainspool\n"
              "%s  app.kubernetes.io/instance: %s\n",
              indent, indent, indent, name);
}

/* ---- Parts ---- */

/* A pod finds rank 0 by its name also before it is ready. */
static void add_service(struct text *out, const char *name)
{
    text_addf(out, "apiVersion: v1\nkind: Service\nmetadata:\n  name: %s\n", name);
    add_labels(out, "  ", name);
    text_addf(out,
              "spec:\n"
              "  clusterIP: None\n"
              "  publishNotReadyAddresses: true\n"
              "  selector:\n"
              "    batch.kubernetes.io/job-name: %s\n"
              "---\n",
              name);
}

static void add_policy(const struct kubernetes_job *job, struct text *out)
{
    text_addf(out,
              "  completionMode: Indexed\n"
              "  completions: %" PRId64 "\n"
              "  parallelism: %" PRId64 "\n"
              "  # rank 0, which is in pod 0, succeeds once the job is done\n"
              "  successPolicy:\n"
              "    rules:\n"
              "      - succeededIndexes: \"0\"\n"
              "  # of pods: when one fails, the ranks of all others end, too\n"
              "  backoffLimit: %" PRId64 "\n"
              "  podFailurePolicy:\n"
              "    rules:\n"
              "      # drained, preempted, or on a lost node\n"
              "      - action: Ignore\n"
              "        onPodConditions:\n"
              "          - type: DisruptionTarget\n"
              "            status: \"True\"\n"
              "      # stopped after a checkpoint, because another pod was\n"
              "      - action: Ignore\n"
              "        onExitCodes:\n"
              "          containerName: trainspool\n"
              "          operator: In\n"
              "          values: [%d]\n"
              "      # the job itself has failed: another attempt would fail, too\n"
              "      - action: FailJob\n"
              "        onExitCodes:\n"
              "          containerName: trainspool\n"
              "          operator: In\n"
              "          values: [%d, %d]\n",
              job->nodes, job->nodes, job->failures * job->nodes, EXIT_TERMINATED,
              EXIT_FINDINGS, EXIT_NO_JOB);
}

/* Labels of NVIDIA's GPU feature discovery.  A node may report somewhat less memory than a
 * card is sold with. */
static void add_affinity(const struct device *device, struct text *out)
{
    const uint64_t mib = device->memory >> 20;

    text_addf(out,
              "      # the GPU that the job was checked for: %s\n"
              "      affinity:\n"
              "        nodeAffinity:\n"
              "          requiredDuringSchedulingIgnoredDuringExecution:\n"
              "            nodeSelectorTerms:\n"
              "              - matchExpressions:\n"
              "                  - key: nvidia.com/gpu.compute.major\n"
              "                    operator: In\n"
              "                    values: [\"%d\"]\n"
              "                  - key: nvidia.com/gpu.compute.minor\n"
              "                    operator: In\n"
              "                    values: [\"%d\"]\n",
              device->name, device->major, device->minor);
    if (mib > 0)
        text_addf(out,
                  "                  - key: nvidia.com/gpu.memory\n"
                  "                    operator: Gt\n"
                  "                    values: [\"%" PRIu64 "\"]\n",
                  mib - mib / 16);
}

/* Ranks on CPUs would share those of one node. */
static void add_spread(const char *name, struct text *out)
{
    text_addf(out,
              "      topologySpreadConstraints:\n"
              "        - maxSkew: 1\n"
              "          topologyKey: kubernetes.io/hostname\n"
              "          whenUnsatisfiable: ScheduleAnyway\n"
              "          labelSelector:\n"
              "            matchLabels:\n"
              "              batch.kubernetes.io/job-name: %s\n",
              name);
}

static void add_pod(const struct kubernetes_job *job, const char *name, struct text *out)
{
    text_addf(out,
              "      restartPolicy: Never\n"
              "      terminationGracePeriodSeconds: %" PRId64 "\n"
              "      automountServiceAccountToken: false\n"
              "      enableServiceLinks: false\n",
              job->seconds);
    if (job->nodes > 1)
        text_addf(out, "      subdomain: %s\n", name);
    text_addf(out,
              "      securityContext:\n"
              "        runAsNonRoot: true\n"
              "        runAsUser: %" PRIu64 "\n"
              "        runAsGroup: %" PRIu64 "\n"
              "        fsGroup: %" PRIu64 "\n"
              "        fsGroupChangePolicy: OnRootMismatch\n"
              "        seccompProfile:\n"
              "          type: RuntimeDefault\n",
              (uint64_t)job->user, (uint64_t)job->group, (uint64_t)job->group);
    if (job->gpus > 0)
        text_adds(out, "      tolerations:\n"
                       "        - key: nvidia.com/gpu\n"
                       "          operator: Exists\n"
                       "          effect: NoSchedule\n");
    if (job->device)
        add_affinity(job->device, out);
    else if (job->nodes > 1 && job->gpus == 0)
        add_spread(name, out);
}

static void add_command(const struct kubernetes_job *job, struct text *out)
{
    text_adds(out, "          command:\n");
    add_word(out, "trainspool");
    add_word(out, "run");
    add_word(out, "--resume");
    for (const char *const *set = job->set; set && *set; set++) {
        add_word(out, "--set");
        add_word(out, *set);
    }
    add_word(out, "--");
    add_word(out, job->path);
}

static void add_environment(const struct kubernetes_job *job, const char *name,
                            struct text *out)
{
    text_adds(out, "          env:\n"
                   "            - name: HOME\n"
                   "              value: /tmp\n");
    if (job->nodes < 2)
        return;
    text_addf(out,
              "            - name: NNODES\n"
              "              value: \"%" PRId64 "\"\n"
              "            - name: NODE_RANK\n"
              "              valueFrom:\n"
              "                fieldRef:\n"
              "                  fieldPath: "
              "metadata.annotations['batch.kubernetes.io/job-completion-index']\n"
              "            - name: NPROC_PER_NODE\n"
              "              value: \"%" PRId64 "\"\n"
              "            - name: MASTER_ADDR\n"
              "              value: %s-0.%s\n",
              job->nodes, job->ranks, name, name);
}

static void add_resources(const struct kubernetes_job *job, struct text *out)
{
    const uint64_t mib = (job->memory + ((uint64_t)1 << 20) - 1) >> 20;

    text_addf(out,
              "          resources:\n"
              "            requests:\n"
              "              cpu: \"%" PRId64 "\"\n",
              job->cpus);
    if (mib > 0)
        text_addf(out, "              memory: %" PRIu64 "Mi\n", mib);
    if (job->gpus > 0 || (job->limited && mib > 0))
        text_adds(out, "            limits:\n");
    if (job->limited && mib > 0)
        text_addf(out, "              memory: %" PRIu64 "Mi\n", mib);
    if (job->gpus > 0)
        text_addf(out, "              nvidia.com/gpu: \"%" PRId64 "\"\n", job->gpus);
}

/* NCCL connects the GPUs of a pod through /dev/shm, of which containers have 64 MiB. */
static void add_volumes(const struct kubernetes_job *job, struct text *out)
{
    const bool shared = job->gpus > 0 && job->ranks > 1;
    const bool scratch = strcmp(job->mount, "/tmp") != 0;

    add_value(
        out,
        "          volumeMounts:\n            - name: work\n              mountPath: ",
        job->mount);
    if (scratch)
        text_adds(out, "            - name: scratch\n              mountPath: /tmp\n");
    if (shared)
        text_adds(
            out,
            "            - name: shared-memory\n              mountPath: /dev/shm\n");
    add_value(out,
              "      volumes:\n        - name: work\n          persistentVolumeClaim:\n"
              "            claimName: ",
              job->claim);
    if (scratch)
        text_adds(out, "        - name: scratch\n          emptyDir: {}\n");
    if (shared)
        text_adds(out, "        - name: shared-memory\n          emptyDir:\n"
                       "            medium: Memory\n");
}

static void add_container(const struct kubernetes_job *job, const char *name,
                          struct text *out)
{
    char *dir = path_dir(job->path);

    text_adds(out, "      containers:\n        - name: trainspool\n");
    add_value(out, "          image: ", job->image);
    add_command(job, out);
    add_value(out, "          workingDir: ", dir);
    add_environment(job, name, out);
    add_resources(job, out);
    text_adds(out, "          securityContext:\n"
                   "            allowPrivilegeEscalation: false\n"
                   "            readOnlyRootFilesystem: true\n"
                   "            capabilities:\n"
                   "              drop: [ALL]\n");
    add_volumes(job, out);
    free(dir);
}

void kubernetes_manifest(const struct kubernetes_job *job, struct text *out)
{
    char name[KUBERNETES_NAME];

    kubernetes_name(job->path, name);
    text_addf(out,
              "# Written by trainspool " PACKAGE_VERSION ": %" PRId64
              " pod%s with %" PRId64 " rank%s%s.\n",
              job->nodes, job->nodes == 1 ? "" : "s", job->ranks,
              job->ranks == 1 ? "" : "s", job->nodes == 1 ? "" : " each");
    if (job->nodes > 1)
        add_service(out, name);
    text_addf(out, "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: %s\n", name);
    add_labels(out, "  ", name);
    add_value(out, "  annotations:\n    trainspool/job: ", job->path);
    text_adds(out, "spec:\n");
    add_policy(job, out);
    text_adds(out, "  template:\n    metadata:\n");
    add_labels(out, "      ", name);
    text_adds(out, "    spec:\n");
    add_pod(job, name, out);
    add_container(job, name, out);
}

/* ---- The image ---- */

void kubernetes_container_file(bool gpu, struct text *out)
{
    text_addf(
        out,
        "# Written by trainspool " PACKAGE_VERSION ".  In the folder of its sources:\n"
        "#   podman build -t trainspool:" PACKAGE_VERSION " -f THIS_FILE .\n"
        "ARG BUILD=%s\n"
        "ARG BASE=%s\n"
        "\n"
        "FROM ${BUILD} AS build\n"
        "COPY . /source\n"
        "WORKDIR /source\n"
        "RUN ./install-deps.sh\n"
        "# a tree that was built in place\n"
        "RUN if [ -f Makefile ]; then make distclean; fi && rm -rf build && ./autogen.sh\n"
        "RUN mkdir /build && cd /build && /source/configure --prefix=/usr %s && \\\n"
        "    make -j\"$(nproc)\" && make install-strip DESTDIR=/image\n"
        "# the libraries of both programs, and oneDNN, which is loaded at run time; the image has\n"
        "# the C library and those of CUDA\n"
        "RUN mkdir -p /image/usr/lib/trainspool && cd /image/usr/lib/trainspool && \\\n"
        "    onednn=$(find /usr/lib -name 'libdnnl.so.[0-9]') && \\\n"
        "    { echo \"$onednn\"; ldd /image/usr/bin/trainspool* $onednn | \\\n"
        "      sed -n 's/.*=> \\(\\/[^ ]*\\) .*/\\1/p'; } | grep -Ev '/lib[cm]\\.so|/cuda' | sort -u | \\\n"
        "    xargs cp -L -t .\n"
        "\n"
        "FROM ${BASE}\n"
        "COPY --from=build /image /\n"
        "ENV LD_LIBRARY_PATH=/usr/lib/trainspool\n"
        "USER 10001:10001\n"
        "CMD [\"trainspool\", \"--help\"]\n",
        gpu ? "docker.io/nvidia/cuda:13.0.1-devel-ubuntu24.04"
            : "docker.io/library/debian:12",
        gpu ? "docker.io/nvidia/cuda:13.0.1-runtime-ubuntu24.04"
            : "docker.io/library/debian:12-slim",
        gpu ? "--with-cuda-archs=all" : "--without-cuda");
}
