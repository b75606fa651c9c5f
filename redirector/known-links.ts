/** Caches recently visited links by the raw Host header and path: one lookup per visit instead of four. */
import type { LinkCache } from '#common/links/link-cache.ts';
import { type LinkedApp, type LinkSnapshot, linkKey } from '#common/links/link-snapshot.ts';
import { codeOfPath, pathOfCode } from '#common/links/short-code.ts';
import type { CachedSnapshot } from '#common/links/snapshot-cache.ts';
import { LinkPlan } from '#common/redirect/plan.ts';
import { isHostHeader, requestHostOf } from './visitor.ts';

interface KnownLink {
  readonly app: CachedSnapshot<LinkedApp>;
  readonly link: CachedSnapshot<LinkSnapshot>;
  readonly plan: LinkPlan;
}

/** When either limit is reached, the map is cleared; links in use are cached again at their next visit. */
const linksMax = 50_000;
const bytesMax = 134_217_728;
/**
 * Estimate: the text of a plan takes about as much memory as its snapshot's, once unchanged and once as sent and
 * recorded.
 */
const bytesOf = (header: string, path: string, link: CachedSnapshot<LinkSnapshot>) =>
  2 * (header.length + path.length + link.bytes);

/**
 * Contains no snapshots: each entry refers to two entries of the link cache, which checks at every visit whether they
 * are current. A header for which no link was served is not stored.
 */
export class KnownLinks {
  readonly #cache: LinkCache;
  readonly #byHeader = new Map<string, Map<string, KnownLink>>();
  #size = 0;
  #bytes = 0;
  #header = '';
  #links: Map<string, KnownLink> | undefined;

  constructor(cache: LinkCache) {
    this.#cache = cache;
  }

  /** The plan of a link, if its entries in memory are fresh. */
  find(hostHeader: string, path: string, nowMs: number): LinkPlan | undefined {
    // Most requests within a second are for a few hosts.
    if (hostHeader !== this.#header) {
      this.#header = hostHeader;
      this.#links = this.#byHeader.get(hostHeader);
    }
    const known = this.#links?.get(path);
    const { apps, links } = this.#cache;
    if (known !== undefined && apps.isCurrent(known.app, nowMs) && links.isCurrent(known.link, nowMs))
      return known.plan;
    return this.#learn(path, nowMs);
  }

  #learn(path: string, nowMs: number): LinkPlan | undefined {
    // Only forms that a browser sends: otherwise a client could fill the map with made-up headers or encodings of one
    // link.
    const code = isHostHeader(this.#header) ? codeOfPath(path) : null;
    if (code === null || (pathOfCode(code) !== path && `${pathOfCode(code)}/` !== path)) return undefined;
    const host = requestHostOf(this.#header);
    const app = this.#cache.apps.keep(host, nowMs);
    const link = this.#cache.links.keep(linkKey(host, code), nowMs);
    if (!app?.value || !link?.value || link.value.app_id !== app.value.id) return undefined;
    const plan = new LinkPlan(app.value, link.value).prepare();
    this.#add(path, { app, link, plan });
    return this.#cache.apps.isCurrent(app, nowMs) && this.#cache.links.isCurrent(link, nowMs) ? plan : undefined;
  }

  #add(path: string, known: KnownLink): void {
    if (this.#size >= linksMax || this.#bytes >= bytesMax) {
      this.#byHeader.clear();
      this.#size = 0;
      this.#bytes = 0;
      this.#links = undefined;
    }
    if (this.#links === undefined) {
      this.#links = new Map();
      this.#byHeader.set(this.#header, this.#links);
    }
    const before = this.#links.get(path);
    if (before === undefined) this.#size++;
    else this.#bytes -= bytesOf(this.#header, path, before.link);
    this.#bytes += bytesOf(this.#header, path, known.link);
    this.#links.set(path, known);
  }
}
