/** Saves the link drawer: the link, then its password, which is a separate resource. */
import { ApiFailure, type Body, call } from './api.ts';
import { changesOf, draftOf, type Link, type LinkDraft, newLinkOf } from './link-draft.ts';
import { t } from './texts/text.ts';

export interface PasswordDraft {
  /** Empty: unchanged. */
  readonly text: string;
  readonly isRemoved: boolean;
}

export interface WrittenLink {
  readonly draft: LinkDraft;
  readonly appId: string;
  /** Undefined if they were not changed. */
  readonly rules: Body<'PATCH /links/{id}'>['rules'];
  readonly password: PasswordDraft;
}

/** Same limit as in the API. */
const passwordCharactersMin = 4;

/** The link as stored so far, so that it is not created again if setting its password fails and the user retries. */
export class LinkSaving {
  #link: Link | null;
  #before: LinkDraft;

  constructor(link: Link | null, before: LinkDraft) {
    this.#link = link;
    this.#before = before;
  }

  async save({ draft, appId, rules, password }: WrittenLink): Promise<Link> {
    if (password.text !== '' && password.text.length < passwordCharactersMin)
      throw new ApiFailure(400, '', { fields: new Map([['password', t('link.password_short')]]) });
    const more = rules === undefined ? {} : { rules };
    if (this.#link === null) {
      this.#store(await call('POST /links', { body: { ...newLinkOf(draft, appId), ...more } }));
    } else {
      const body = { ...changesOf(draft, this.#before), ...more };
      const { id } = this.#link;
      if (Object.keys(body).length > 0) this.#store(await call('PATCH /links/{id}', { params: { id }, body }));
    }
    return await this.#savePassword(password);
  }

  #store(link: Link): Link {
    this.#link = link;
    this.#before = draftOf(link);
    return link;
  }

  async #savePassword({ text, isRemoved }: PasswordDraft): Promise<Link> {
    if (this.#link === null) throw new Error('a password needs a link');
    const params = { link_id: this.#link.id };
    if (isRemoved) return this.#store(await call('DELETE /links/{link_id}/password', { params }));
    if (text === '') return this.#link;
    return this.#store(await call('PUT /links/{link_id}/password', { params, body: { password: text } }));
  }
}
