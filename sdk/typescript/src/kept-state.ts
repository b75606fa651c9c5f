import type { Consent, Dropped, Link } from './types.ts';

/** What is kept on the device besides the queue. */
export interface State {
  consent?: Consent | undefined;
  /** The first match was answered. */
  opened?: boolean | undefined;
  installed?: boolean | undefined;
  device_id?: string | undefined;
  install_id?: string | undefined;
  match_id?: string | undefined;
  user_id?: string | undefined;
  first_link?: Link | undefined;
  last_link?: Link | undefined;
  /** A deferred link that no listener took yet, and since when. */
  untaken?: { link: Link; at: number } | undefined;
  /** Pages only: the click that led here, which their events name. */
  click?: { link_id: string; click_id: string };
  dropped?: Dropped | undefined;
}
