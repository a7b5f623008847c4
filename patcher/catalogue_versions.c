/* patcher/catalogue_versions.c - TS8xx: jobs of another program, and its versions. */
#include "config.h"

#include "patcher/rules_parts.h"

#include "base/size.h"

static const struct rule rows[] = {
    { .id = "TS809",
      .title = "versions differ from those of the environment",
      .severity = SEVERITY_WARNING,
      .run = rule_versions,
      .explain =
          "trainspool.versions gives a version of a package, and the environment that "
          "trainspool.env names holds another. What versions says is believed, since it "
          "may be meant for another machine; if it is not, rules speak of a program "
          "other than the one that will run.\n\n"
          "A version that is cut short, 2.4, agrees with 2.4.1 and with 2.4.1+cu121. "
          "Take the package out of versions to have it read from the environment. "
          "Nothing there is executed: only METADATA of *.dist-info folders is read.",
      .source = "PEP 440, PEP 503; the packaging guide, Recording installed projects" },
};
const struct rules catalogue_versions = { rows, TS_COUNT(rows) };
