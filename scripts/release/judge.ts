/** One condition of a release: whether it holds, and for people what was found. */
export type Check = { readonly name: string; readonly ok: boolean; readonly why: string };

/** All that a release is judged by; reading it is the work of scripts/release.ts. */
export type Facts = {
  readonly version: string;
  /** Lines of `git status --porcelain`; undefined where this is no clone. */
  readonly changed: readonly string[] | undefined;
  readonly tags: readonly string[];
  readonly changelog: string;
  readonly lock: Lock;
  readonly node: NodeBinary;
  /** The exit status of `npm run ok` and `npm run test:release`; undefined where it was not run. */
  readonly tests: number | undefined;
  /** Named by `--base-image`; undefined where no image is part of the release. */
  readonly baseImage: string | undefined;
  readonly sbom: Sbom;
};

export type Lock = {
  readonly version?: string;
  readonly packages: Readonly<Record<string, LockedPackage>>;
};

type LockedPackage = {
  readonly version?: string;
  readonly integrity?: string;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly link?: boolean;
};

export type NodeBinary = {
  readonly version: string;
  readonly platform: string;
  readonly sha256: string;
  readonly pinned: { readonly version: string; readonly sha256: Readonly<Record<string, string>> };
};

export type Sbom = {
  readonly metadata: { readonly component: object };
  readonly components: readonly Component[];
  readonly dependencies: readonly {
    readonly ref: string;
    readonly dependsOn?: readonly string[];
  }[];
};
type Component = {
  readonly "bom-ref": string;
  readonly name: string;
  readonly version: string;
  readonly hashes?: readonly unknown[];
};

/** The packages of the lock file that are installed with the published one, as `name@version`. */
function installed({ packages }: Lock): ReadonlySet<string> {
  const names = Object.entries(packages)
    .filter(([path, { dev, link }]) => path.startsWith("node_modules/") && !dev && !link)
    .map(
      ([path, { version }]) => `${path.slice(path.lastIndexOf("node_modules/") + 13)}@${version}`,
    );
  return new Set(names);
}

/**
 * The part of a bill of materials that is installed with the package, under its name: npm calls it
 * after the folder, and with `--omit dev` leaves out whatever a tool needs as well.
 */
export function sbomOfInstalled(sbom: Sbom, name: string, lock: Lock): Sbom {
  const kept = installed(lock);
  const components = sbom.components.filter((each) => kept.has(`${each.name}@${each.version}`));
  const refs = new Set(components.map((each) => each["bom-ref"]));
  const root = (sbom.metadata.component as { "bom-ref"?: string })["bom-ref"] ?? "";
  const dependencies = sbom.dependencies
    .filter(({ ref }) => refs.has(ref) || ref === root)
    .map(({ ref, dependsOn = [] }) => ({
      ref,
      dependsOn: dependsOn.filter((one) => refs.has(one)),
    }));
  const metadata = { ...sbom.metadata, component: { ...sbom.metadata.component, name } };
  return { ...sbom, metadata, components, dependencies };
}

const VERSION = /^\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?$/;
const SHOWN_MAX = 5;

/** Every condition, in the order of the book; all are judged, so that one run shows all that is wrong. */
export function judge(facts: Facts): Check[] {
  return [
    treeOf(facts),
    versionOf(facts),
    headingOf(facts),
    lockOf(facts),
    nodeOf(facts.node),
    sbomOf(facts),
    imageOf(facts),
    testsOf(facts),
  ];
}

function treeOf({ changed }: Facts): Check {
  const name = "the tree is clean";
  if (changed === undefined) return { name, ok: false, why: "this is no git clone" };
  return { name, ok: changed.length === 0, why: listed(changed, "nothing is changed") };
}

function versionOf({ version, tags, lock }: Facts): Check {
  const name = "the version is a new one";
  if (!VERSION.test(version)) {
    return { name, ok: false, why: `"${version}" in package.json is no version such as 1.2.3` };
  }
  if (lock.version !== version) {
    const why = `package.json says ${version}, package-lock.json ${lock.version}: set both`;
    return { name, ok: false, why };
  }
  const isTaken = tags.includes(`v${version}`);
  return { name, ok: !isTaken, why: isTaken ? `there is a tag v${version} already` : version };
}

function headingOf({ changelog, version }: Facts): Check {
  const name = "CHANGELOG.md begins with the version and its day";
  const heading = /^## (.*)$/m.exec(changelog)?.[1] ?? "";
  const wanted = new RegExp(`^${version.replaceAll(".", "\\.")} \\(\\d{4}-\\d\\d-\\d\\d\\)$`);
  const why = `its first heading is "## ${heading}"`;
  const ok = wanted.test(heading);
  return { name, ok, why: ok ? why : `${why}: write "## ${version} (YYYY-MM-DD)"` };
}

/** Tools of other platforms, which no machine of a release installs, are told and not refused. */
function lockOf({ lock }: Facts): Check {
  const name = "package-lock.json pins every package by a digest";
  const packages = Object.entries(lock.packages).filter(([path, { link }]) => path !== "" && !link);
  const loose = packages.filter(([, { integrity = "" }]) => !integrity.startsWith("sha512-"));
  const foreign = loose.filter(([, { dev, optional }]) => dev && optional);
  const wrong = loose.filter(([, { dev, optional }]) => !(dev && optional));
  const apart = foreign.length === 0 ? "" : `, but for ${foreign.length} tools of other platforms`;
  const why = listed(
    wrong.map(([path]) => path),
    `${packages.length - foreign.length} packages, SHA-512 each${apart}`,
  );
  return { name, ok: packages.length > 0 && wrong.length === 0, why };
}

function nodeOf({ version, platform, sha256, pinned }: NodeBinary): Check {
  const name = "Node is the binary whose digest is pinned";
  const file = "scripts/release/node-digests.json";
  if (version !== pinned.version) {
    return { name, ok: false, why: `this is Node ${version}, ${file} pins ${pinned.version}` };
  }
  const wanted = pinned.sha256[platform];
  if (wanted === undefined)
    return { name, ok: false, why: `${file} has no digest for ${platform}` };
  const ok = sha256 === wanted;
  const found = `${version} ${platform} sha256:${sha256}`;
  return { name, ok, why: ok ? found : `${found}, pinned is sha256:${wanted}` };
}

function sbomOf({ sbom, lock }: Facts): Check {
  const name = "the bill of materials lists what is installed with the package";
  const found = new Set(sbom.components.map((each) => `${each.name}@${each.version}`));
  const wrong = [
    ...[...installed(lock)].filter((each) => !found.has(each)).map((each) => `${each} is missing`),
    ...sbom.components
      .filter(({ hashes = [] }) => hashes.length === 0)
      .map((each) => `${each.name} has no digest`),
  ];
  const why = listed(wrong, `${sbom.components.length} components with their digests`);
  return { name, ok: wrong.length === 0 && sbom.components.length > 0, why };
}

function imageOf({ baseImage }: Facts): Check {
  const name = "the image stands on a base that is pinned by a digest";
  if (baseImage === undefined) return { name, ok: true, why: "no image: --base-image names none" };
  const ok = /@sha256:[0-9a-f]{64}$/.test(baseImage);
  return { name, ok, why: ok ? baseImage : `${baseImage} has no @sha256:… of 64 digits` };
}

function testsOf({ tests }: Facts): Check {
  const name = "npm run ok and npm run test:release pass";
  if (tests === undefined)
    return { name, ok: false, why: "a dry run does not run it: --tests does" };
  return { name, ok: tests === 0, why: `exit status ${tests}` };
}

function listed(mistakes: readonly string[], otherwise: string): string {
  if (mistakes.length === 0) return otherwise;
  const more = mistakes.length > SHOWN_MAX ? `, and ${mistakes.length - SHOWN_MAX} more` : "";
  return mistakes.slice(0, SHOWN_MAX).join(", ") + more;
}
